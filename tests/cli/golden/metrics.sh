# The same four cities by great circle, a square by Lp and by inner product, and a box whose ends meet.
printf 'name,lon,lat\nOslo,10.75,59.91\nRome,12.5,41.9\nNadi,177.44,-17.76\nApia,-171.77,-13.83\n' >cities.csv
printf 'x,y\n0,0\n1,0\n1,1\n0,1\n' >square.csv
printf 'x\n0.1\n0.6\n9.9\n' >ring.csv
adjoin range -r 2500e3 cities.csv --columns lon,lat --id name --metric haversine --distance --type f64 -o - --quiet
adjoin knn -k 1 cities.csv --columns lon,lat --id name --metric haversine --unit degrees --type f64 -o - --quiet
adjoin range -r 1.26 square.csv --metric lp --p 3 --distance -o - --quiet
adjoin range -r 1 square.csv --metric dot --distance -o - --quiet
adjoin range -r 0.5 ring.csv --box 10 --distance -o - --quiet
adjoin range -r 1 cities.csv --columns lon,lat --metric haversine --sphere 1 --dry-run | head -1
adjoin range -r 1 square.csv --box 4,0 --dry-run | head -1

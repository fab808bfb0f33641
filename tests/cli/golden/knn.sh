# The corners of a square: each corner has two neighbours at 1 and one at 1.4142135; ties go to the lower row.
printf 'x,y\n0,0\n1,0\n1,1\n0,1\n' >square.csv
printf 'name,x,y\nhome,0.1,0\naway,5,1\n' >places.csv
adjoin knn -k 2 square.csv -o -
adjoin knn -k 5 square.csv -r 1 -o - --format tsv --type f64
adjoin knn -k 1 places.csv square.csv --columns x,y -o - --quiet
adjoin knn -k 3 square.csv
adjoin knn -k 3 square.csv -o near.ivecs --distances near.fvecs --type f32
od -A n -t d4 near.ivecs | tr -s ' '
adjoin knn -k 3 square.csv --algorithm ego

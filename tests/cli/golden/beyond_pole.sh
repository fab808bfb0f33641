printf 'lon,lat\n59.9,10.7\n4,91\n' >points.csv
adjoin range -r 100 points.csv --metric haversine

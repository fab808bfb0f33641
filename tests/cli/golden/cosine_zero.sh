printf 'x,y\n1,0\n0,0\n' >points.csv
adjoin range -r 0.1 points.csv --metric cosine

printf 'x,y\n1,0\n5,2\n' >points.csv
adjoin range -r 0.1 points.csv --box 4

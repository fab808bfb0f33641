printf 'x,y\n1,0\n4.0000001,2\n' >points.csv
adjoin range -r 0.1 points.csv --box 4

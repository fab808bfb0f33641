printf 'x,y\n1,2\n3,abc\n' >points.csv
adjoin range -r 1 points.csv

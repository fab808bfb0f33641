adjoin range -r 0.1 points.csv --metric lp

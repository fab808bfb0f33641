# The corners of a square: sides are 1 long, diagonals 1.4142135623730951; with --type f32 1.4142135.
printf 'x,y\n0,0\n1,0\n1,1\n0,1\n' >square.csv
adjoin range -r 1 square.csv -o -
adjoin range -r 1.5 square.csv -o - --distance --order distance
adjoin range -r 1.5 square.csv -o - --distance --type f32 --one-way --quiet
adjoin count -r 1 square.csv -o -
adjoin count -r 1 square.csv

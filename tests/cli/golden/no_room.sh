adjoin generate unif -n 1000 -d 2 -o points.npy --quiet
adjoin range -r 1 points.npy -o /dev/full --format csv

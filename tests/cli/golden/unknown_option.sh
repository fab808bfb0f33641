adjoin range -r 1 points.npy --max-pair 3

# Two clusters, a border point between them that is in the first, and a point in none; by name, and as an array.
printf 'name,x\na,10\nb,11\nc,12\nborder,8\nd,6\ne,5\n"f,g",4\nfar,50\n' >line.csv
adjoin dbscan -r 2 --min-points 4 --id name --columns x line.csv -o -
adjoin dbscan -r 2 --min-points 4 --id name --columns x line.csv -o clusters.npy
od -A n -t d8 -j 128 -w64 clusters.npy
adjoin dbscan -r 2 --columns x line.csv -o clusters.npz || echo $?
adjoin dbscan -r 2 --columns x line.csv line.csv || echo $?
adjoin dbscan -r 2 --min-points 0 --columns x line.csv || echo $?

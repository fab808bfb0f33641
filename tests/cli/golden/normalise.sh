# Both files have the scale of the second: 10 to 30, and a column of one value.
printf '10,5\n20,5\n40,6\n' > a.csv
printf '10,5\n30,5\n' > b.csv
adjoin range -r 0.5 a.csv b.csv -o - --format csv --distance --quiet --normalise --backend cpu
adjoin range -r 0.5 a.csv -o - --format csv --distance --quiet --normalise --backend cpu

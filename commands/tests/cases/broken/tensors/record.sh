# record.sh VALUE SHAPE PART COUNT: what the shim records of a gradient and a parameter with one value.
mkdir -p "$FTEST_TENSORS"
summary="{\"count\": $4, \"not_finite\": 0, \"sum\": $1, \"absolute\": $1, \"squares\": $1, \"largest\": $1, \"bits\": ${1#0.}, \"samples\": []}"
tensor() {
    printf '{"role": "%s", "name": "0.weight", "dtype": "float32", "shape": %s, "part": %s, "summary": %s}' "$1" "$2" "$3" "$summary"
}
printf '{"step": {"rank": %s, "optimizer": 0, "step": 1, "site": {"file": "train.py", "line": 7, "function": "main"}, "tensors": [%s, %s]}}\n' \
    "$RANK" "$(tensor gradient "$2" "$3")" "$(tensor parameter "$2" "$3")" > "$FTEST_TENSORS/$RANK.jsonl"

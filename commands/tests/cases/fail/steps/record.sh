# record.sh SAMPLES...: what the shim records of one step on each of these lists of samples.
mkdir -p "$FTEST_STEPS"
step=0
for samples; do
    step=$((step + 1))
    printf '{"step": {"rank": %s, "optimizer": 0, "step": %s, "site": {"file": "train.py", "line": 7, "function": "main"}, "samples": [%s]}}\n' \
        "$RANK" "$step" "$samples"
done > "$FTEST_STEPS/$RANK.jsonl"

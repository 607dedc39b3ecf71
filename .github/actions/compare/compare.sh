#!/bin/bash
# Measure MODEL, compare the run with the document BASELINE, and append both to the job summary.
# The exit status is that of `p3-advisor compare`.
set -euo pipefail
read -ra options <<< "$OPTIONS"
gate=(--fail-on-regression "$THRESHOLD")
if [ "$FAIL_ON_UNDECIDED" = true ]; then gate+=(--fail-on-undecided); fi

p3-advisor recommend --model "$MODEL" "${options[@]}"
document=$(p3-advisor compare "$BASELINE" latest --format json)
outcome=$(python3 -c 'import json, sys; print(json.loads(sys.argv[1])["outcome"])' "$document")
echo "outcome=$outcome" >> "$GITHUB_OUTPUT"
status=0
p3-advisor compare "$BASELINE" latest "${gate[@]}" --format md >> "$GITHUB_STEP_SUMMARY" || status=$?
p3-advisor report latest --to github-summary
exit "$status"

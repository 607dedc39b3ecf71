#!/bin/bash
# Measure MODEL, compare the run with the document BASELINE, and append both to the job summary.
# With COMMENT, the comparison is a comment of the pull request, which later runs replace.
# The exit status is that of `p3-advisor compare`.
set -euo pipefail
read -ra options <<< "$OPTIONS"
gate=(--fail-on-regression "$THRESHOLD")
if [ "$FAIL_ON_UNDECIDED" = true ]; then gate+=(--fail-on-undecided); fi

comment() {
  local mark="<!-- p3-advisor compare -->" comments="repos/$GITHUB_REPOSITORY/issues" body ids
  body=$(mktemp)
  { echo "$mark"; cat "$1"; } > "$body"
  ids=$(gh api "$comments/$PULL_REQUEST/comments" --paginate \
    --jq ".[] | select(.body | startswith(\"$mark\")) | .id")
  if [ -n "$ids" ]; then
    gh api "$comments/comments/${ids%%$'\n'*}" --method PATCH --field "body=@$body" --silent
  else
    gh api "$comments/$PULL_REQUEST/comments" --field "body=@$body" --silent
  fi
}

p3-advisor recommend --model "$MODEL" "${options[@]}"
# It fails with a document where the runs are not comparable.
document=$(p3-advisor compare "$BASELINE" latest --format json) || [ -n "$document" ]
conclusion=$(python3 -c 'import json, sys; print(json.loads(sys.argv[1])["conclusion"])' "$document")
echo "conclusion=$conclusion" >> "$GITHUB_OUTPUT"
status=0
comparison=$(mktemp)
p3-advisor compare "$BASELINE" latest "${gate[@]}" --format md > "$comparison" || status=$?
cat "$comparison" >> "$GITHUB_STEP_SUMMARY"
report=$(mktemp -d)
p3-advisor report latest --format md --output "$report"
cat "$report"/*.md >> "$GITHUB_STEP_SUMMARY"
if [ "$COMMENT" = true ] && [ -n "$PULL_REQUEST" ]; then
  comment "$comparison" || echo "::warning::The comparison could not be written to the pull request."
fi
exit "$status"

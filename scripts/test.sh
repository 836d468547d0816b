#!/bin/bash
# test.sh [SUITE…]: runs the named suites of tests/, or without a name what each change is tested with: the checks, the suites
# without VMs, and the files of $core, which boot two VMs. The last line is "N passed, N failed"; the exit code is 1 when one failed.
# A suite is a folder of tests/: unit, attack/host, …; "vms" is everything that boots VMs and is not in $core.
# TEST=path runs that file or folder alone, FILTER=text the tests whose name contains it.
# Before the last line: seconds of each suite and of the slowest files; .cache/test_times has every file of the last run without
# TEST. What failed is shown again there, with its error, and kept in .cache/failed: of a long log often only the end is kept.
# A file of the suites in $again in which a test failed is run once more. Both runs are shown, and what passed only the second
# time is named before the last line. With STRICT=1 it has failed, unless tests/flaky.txt names the test.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
[ -n "${SBX_TEST_RUN:-}" ] || exec scripts/contained.sh scripts/test.sh "$@"

# Tests read no variable of the person who runs them, except what names the place and the time limits of things to test with.
export SBX_TEST_ASSETS_DIR=${SBX_TEST_ASSETS_DIR:-${SBX_ASSETS_DIR:-${SBX_HOME:-$HOME/.sbx}/assets}}
for name in $(compgen -e SBX_); do
  case $name in SBX_TEST_* | SBX_REQUIRE_* | SBX_FLEET_ENGINES | SBX_NATS_SERVER | SBX_VM_LIBRARY | SBX_TIME_FACTOR) ;; *) unset "$name" ;; esac
done
deno="$root/.deno/deno"
mkdir -p .cache
work=$(mktemp -d); modules=$(mktemp -d .cache/tests.XXXXXX); trap 'rm -rf "$work" "$modules"' EXIT
# Suites whose files share processes, the longest first, and suites whose files boot VMs or start services: each has a process of its own.
light=" attack/host fuzz unit " heavy=" api compiled attack/cve attack/vm e2e "
# A VM's whole life, and its requests, files and programs under rules.
core="tests/e2e/policy_test.ts tests/e2e/vm_test.ts"
# What boots VMs and waits for processes takes a machine that stood still for some seconds for a fault; some unit tests run real
# daemons. Attacks are not run again, since one that gets through once is a hole, nor are fuzzers, which find by chance.
again=" api compiled e2e unit "
[ -z "${TEST:-}${FILTER:-}" ] || again=
flags=(--no-check -A --quiet)
[ -z "${FILTER:-}" ] || flags+=(--filter "$FILTER")

# Of a job that failed, so many lines stand at the end of the output.
FAILURE_LINES=60

# Jobs, each a line "check NAME COMMAND…" or "test SUITE FILE…". Names and paths hold no spaces. Checks, the API's files and light
# suites come first, one job more than processors at a time, since the API's files mostly wait; they begin, and the short jobs of
# the light suites fill the end. Then the other heavy ones, one for two processors: a VM keeps more than one of them busy, and two
# files of VMs on two processors waited for each other longer than one after the other takes. The first of them begins beside the
# last light job.
jobs=() light_jobs=() heavy_jobs=() without=
processors=$(getconf _NPROCESSORS_ONLN)
light_workers=$((processors + 1))
heavy_workers=$(((processors + 1) / 2))

# add SUITE PATH…: the jobs of a suite's files. Those whose names end in "_alone_test.ts" change the environment or the folder of
# their process, or count its descriptors. They share a process with one another only, since they put things back.
add() {
  local name=$1 files file; shift
  files=$(find "$@" -name '*_test.ts' | sort)
  [ -z "$without" ] || files=$(grep -vxFf <(tr ' ' '\n' <<<"$without") <<<"$files")
  [ -n "$files" ] || { echo "test.sh: no *_test.ts at $*" >&2; exit 1; }
  case "$light$heavy" in *" $name "*) ;; *) heavy_workers=1 ;; esac
  if [[ "$light" == *" $name "* && "$files" == *$'\n'* ]]; then
    files=$(bundle "$name" <<<"$(grep -v '_alone_test\.ts$' <<<"$files")"
      bundle "$name-alone" <<<"$(grep '_alone_test\.ts$' <<<"$files")")
  fi
  for file in $files; do
    if [[ "$light api " == *" $name "* ]]; then light_jobs+=("test $name $file"); else heavy_jobs+=("test $name $file"); fi
  done
}

# bundle NAME: modules that import the test files in standard input, 24 in each. Deno loads what test files import once for each
# module that it is given, which takes longer than most tests. Failures and times still have the file's name.
bundle() {
  local place="$modules/${1//\//-}-"
  sed "/./!d; s#.*#import \"$root/&\";#" | split -l 24 -d --additional-suffix=.ts - "$place"
  find "$modules" -path "$place[0-9]*" | sort
}

# take QUEUE: the number of its next job that no worker has taken yet.
take() {
  local next end job=
  lock queue
  read -r next end <"$work/$1.left"
  [ "$next" = "$end" ] || { job=$next; echo "$((next + 1)) $end" >"$work/$1.left"; }
  unlock queue
  [ -n "$job" ] && echo "$job"
}

# lock NAME, unlock NAME: one worker at a time is between them.
lock() { until mkdir "$work/$1.lock" 2>/dev/null; do sleep 0.02; done; }
unlock() { rmdir "$work/$1.lock"; }

# work_off: all jobs. A worker that finds no light job is one of the heavy workers if no more of the others are busy than them.
work_off() {
  local worker workers=$light_workers
  echo "0 ${#light_jobs[@]}" >"$work/light.left"
  echo "${#light_jobs[@]} ${#jobs[@]}" >"$work/heavy.left"
  echo "$workers" >"$work/busy"
  for ((worker = 0; worker < workers; worker++)); do
    {
      while job=$(take light); do run_job "$job"; done
      lock queue; busy=$(($(cat "$work/busy") - 1)); echo "$busy" >"$work/busy"; unlock queue
      if [ "$busy" -ge 1 ] && [ "$busy" -le "$heavy_workers" ]; then
        while job=$(take heavy); do run_job "$job"; done
      fi
    } &
  done
  wait
}

# processor: sets used to the seconds of processor time of this worker's ended processes; daemons that left them are not in it.
processor() {
  local file=$work/$BASHPID.times
  builtin times >"$file"
  used=$(awk 'NR == 2 { split($1, program, /[ms]/); split($2, kernel, /[ms]/)
    printf "%d", 60 * (program[1] + kernel[1]) + program[2] + kernel[2] }' "$file")
}

# run_job N: leaves "PASSED FAILED SECONDS SUITE PROCESSOR" in N.result; what it printed is shown when it ends, of an only job at once.
run_job() {
  local job=$1 since=$SECONDS kind name rest good=0 bad=0 used before
  read -r kind name rest <<<"${jobs[$job]}"
  processor; before=$used
  local log="$work/$job.log"
  if [ "$kind" = check ]; then
    # shellcheck disable=SC2086
    show $rest && good=1 || bad=1
  else
    test_files "$rest" --junit-path="$work/$job.xml"
    [ "$bad" = 0 ] || [[ "$again" != *" $name "* ]] || once_more
  fi
  processor
  echo "$good $bad $((SECONDS - since)) $name $((used - before))" >"$work/$job.result"
  [ "$bad" = 0 ] || failures "$name" >"$work/$job.failures"
  [ ${#jobs[@]} -gt 1 ] || return 0
  lock shown
  echo "── $name ($((job + 1)) of ${#jobs[@]}, $((SECONDS - since)) s, $((used - before)) s of processor)"
  cat "$log"
  unlock shown
}

# failures NAME: the failed tests of the job's last run, then their errors; of a check, or where the runner printed none, the end of
# its output.
failures() {
  local errors
  errors=$(for part in '/^ FAILURES $/,/^FAILED /' '/^ ERRORS $/,/^ FAILURES $/'; do
    sed -n "${part}p" "$log.run" 2>/dev/null | sed '/^ [A-Z]* $/d; /^FAILED /d; /^$/d'
  done)
  echo "── failed: $1"
  if [ -n "$errors" ]; then head -n "$FAILURE_LINES" <<<"$errors"; else tail -n "$FAILURE_LINES" "$log"; fi | cut -c1-400
}

# show COMMAND…: runs it with its output in $log, and shown at once where it is the only job.
show() {
  if [ ${#jobs[@]} -gt 1 ]; then "$@" >>"$log" 2>&1; else "$@" 2>&1 | tee -a "$log"; fi
}

# test_files FILES FLAG…: sets good and bad. A run that ends without its closing line has failed.
test_files() {
  local code line files=$1; shift
  : >"$log.run"
  # shellcheck disable=SC2086
  log="$log.run" show env NO_COLOR=1 "$deno" test "${flags[@]}" "$@" $files
  code=$?
  cat "$log.run" >>"$log"
  line=$(grep -E '^(ok|FAILED) \| [0-9]+ passed' "$log.run" | tail -1)
  good=$(sed -E 's/.*\| ([0-9]+) passed.*/\1/' <<<"${line:-| 0 passed}")
  bad=$(sed -nE 's/.*\| ([0-9]+) failed.*/\1/p' <<<"$line"); bad=${bad:-0}
  if [ "$code" != 0 ] && [ "$bad" = 0 ]; then bad=1; fi
}

# once_more: the files in which a test of the job's run failed, once more. An error outside any test cancels the others of its
# module, may come from each of its files, and counts as one more failure: then all of them are run. Where neither is named, the
# run itself broke: that stays.
# With STRICT=1 a test that failed, passes now and is not in tests/flaky.txt is a failure still.
once_more() {
  local tests files first=$bad before=$good unknown
  tests=$(sed '1,/^ FAILURES $/d' "$log.run" | sed -nE 's#^(.*) => \./(tests/[^ :]+_test\.ts):[0-9:]+$#\2 \1#p' | sort -u)
  files=$(cut -d' ' -f1 <<<"$tests" | sort -u)
  if sed '1,/^ FAILURES $/d' "$log.run" | grep -q '(uncaught error)$'; then
    files=$rest before=0 first=$((good + bad - 1))
    tests=$(sed '/^$/d' <<<"$tests"; echo "an error outside the tests of $name: $(sed -n 's/^error: //p' "$log.run" | head -n 1)")
  fi
  [ -n "$files" ] || return 0
  echo "── once more: $files" >>"$log"
  # shellcheck disable=SC2086
  test_files "$(tr '\n' ' ' <<<"$files")"
  if [ "$bad" = 0 ]; then
    unknown=$(grep -vxFf <(grep '^tests/' tests/flaky.txt) <<<"$tests")
    sed 's/^/failed, and passed when run once more: /' <<<"$tests" >"$work/$job.again"
    if [ -n "$unknown" ]; then
      sed 's#^#tests/flaky.txt names no such test: #' <<<"$unknown" >>"$work/$job.again"
      [ -z "${STRICT:-}" ] || bad=$(wc -l <<<"$unknown")
    fi
  fi
  [ "$bad" -le "$first" ] || bad=$first
  good=$((before + first - bad))
}

# times: seconds of each test file in the runs' reports, the slowest first; loading a file is not in them.
times() {
  cat "$work"/*.xml 2>/dev/null | awk '
    function attribute(name) {
      return match($0, " " name "=\"[^\"]*\"") ? substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 4) : ""
    }
    # The time of a step, "TEST > STEP", is within its test.
    function is_step(name, at, ahead) {
      for (at = 0; ahead = index(substr(name, at + 1), " &gt; ");) {
        at += ahead
        if (substr(name, 1, at - 1) in seconds) return 1
      }
      return 0
    }
    /<testsuite / { file = attribute("name"); split("", seconds) }
    /<testcase / { seconds[attribute("name")] += attribute("time") }
    /<\/testsuite>/ { for (name in seconds) if (!is_step(name)) sum[file] += seconds[name] }
    END { for (file in sum) printf "%6.1f s  %s\n", sum[file], file }' | sort -rn
}

if [ -n "${TEST:-}" ]; then
  add "$(sed -E 's#^(\./)?tests/(attack/[^/]+|[^/]+).*#\2#' <<<"$TEST")" "$TEST"
else
  if [ $# = 0 ]; then
    light_jobs=("check types scripts/types.sh" "check lint $deno lint --quiet" "check format $deno fmt --quiet --check")
    # shellcheck disable=SC2086
    set -- api $light core
  elif [ "$*" = vms ]; then
    without=$core
    set -- compiled attack/cve attack/vm e2e
  fi
  for suite in "$@"; do
    # shellcheck disable=SC2086
    if [ "$suite" = core ]; then add e2e $core; else add "$suite" "tests/$suite/"; fi
  done
fi

jobs=("${light_jobs[@]}" "${heavy_jobs[@]}")
work_off

echo
read -r passed failed < <(cat "$work"/*.result 2>/dev/null | awk '{ good += $1; bad += $2 } END { print good + 0, bad + 0 }')
# A job without a result was not run to its end.
for ((job = 0; job < ${#jobs[@]}; job++)); do [ -f "$work/$job.result" ] || failed=$((failed + 1)); done
if [ -z "${TEST:-}" ]; then
  times >.cache/test_times
  awk '{ if (!($4 in sum)) order[++n] = $4; sum[$4] += $3; used[$4] += $5 }
    END { for (i = 1; i <= n; i++) printf "%6d s, %d of processor  %s\n", sum[order[i]], used[order[i]], order[i] }' $(ls -v "$work"/*.result)
  echo "$(printf '%6d s' $SECONDS)  in all; the slowest files:"
  head -n 15 .cache/test_times
fi
cat "$work"/*.again 2>/dev/null
cat "$work"/*.failures 2>/dev/null | tee .cache/failed
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]

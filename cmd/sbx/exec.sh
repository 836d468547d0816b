# `sbx exec NAME -- CMD…` and `sbx run -- CMD…` without a second runtime: one request to the running gateway, in the
# shell that launches sbx.
# Starting Deno takes longer than everything else of a short program. bin/sbx reads this file, and goes on to the
# program in TypeScript when exec_in_shell returns: for every other form of the command, for text beyond ASCII, and
# when no daemon is running. It returns only if the program cannot have run. Long output is left to exec_rest.ts.
#
# The token is read and sent by builtins: it is in no argument, environment variable or trace.

# Lines of the response read here, and most characters of one. A shell reads a socket byte by byte.
EXEC_LINES=24
EXEC_LINE_MAX=8192

# exec_in_shell exec NAME -- CMD…
# exec_in_shell run -- CMD…
exec_in_shell() {
  [[ ${BASH_VERSINFO[0]} -ge 5 && -z ${SBX_LOG:-} && -z ${SBX_HOST:-} ]] || return
  local route=/run vm=
  if [[ $1 == exec ]]; then
    vm=${2:-}
    [[ $vm =~ ^[A-Za-z0-9][A-Za-z0-9_-]*$ ]] || return
    route=/vms/$vm/exec
    shift
  fi
  [[ $# -ge 3 && $2 == -- ]] || return
  shift 2
  set +x
  local LC_ALL=C IFS=$' \t\n' run=${SBX_RUN_DIR:-${SBX_HOME:-${HOME:-/root}/.sbx}/run}
  local body= word pid= state= port= token=
  for word; do
    [[ $word == *[^\ -~]* ]] && return
    word=${word//\\/\\\\}
    body+=,\"${word//\"/\\\"}\"
  done
  body="{\"command\":[${body:1}]}"
  for word in service gateway; do
    { read -r pid <"$run/$word.pid"; } 2>/dev/null
    [[ $pid =~ ^[1-9][0-9]*$ ]] && kill -0 "$pid" 2>/dev/null || return
    # One that was killed, and whose parent has not asked for its end, still has its pid.
    { read -r state <"/proc/$pid/stat"; } 2>/dev/null
    [[ $state == *') Z '* ]] && return
  done
  { read -r port <"$run/gateway.port"; read -r token <"$run/gateway.token"; } 2>/dev/null
  [[ $port =~ ^[0-9]+$ && $token =~ ^[A-Za-z0-9]+$ ]] || return
  exec_is_healthy "$port" || return
  { exec 3<>"/dev/tcp/127.0.0.1/$port"; } 2>/dev/null || return
  # HTTP/1.0, whose response has no chunks.
  printf 'POST %s HTTP/1.0\r\nHost: 127.0.0.1:%s\r\nAuthorization: Bearer %s\r\nUser-Agent: sbx\r\nAccept: text/event-stream\r\nContent-Type: application/json\r\nContent-Length: %s\r\n\r\n%s' \
    "$route" "$port" "$token" "${#body}" "$body" >&3
  token=
  exec_read_head || { exec 3>&-; return; }
  exec_read_events
}

# exec_is_healthy PORT: the gateway reaches the service. One that was killed a moment ago still has its pid.
exec_is_healthy() {
  local line=
  { exec 3<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null || return
  printf 'GET /health HTTP/1.0\r\nHost: 127.0.0.1:%s\r\nUser-Agent: sbx\r\n\r\n' "$1" >&3
  while read -r line <&3 && [[ $line != $'\r' ]]; do :; done
  read -r line <&3
  exec 3>&-
  [[ $line == *'"service":true'* ]]
}

# Reads the response's head. Returns 1 after an error of the request itself, which is answered alike when sent again.
exec_read_head() {
  local status= line
  read -r _ status _ <&3
  while read -r line <&3 && [[ $line != $'\r' ]]; do :; done
  [[ $status == 4?? ]] && return 1
  [[ $status == 200 ]] && return
  # An error is JSON with its reason and remedy.
  [[ $status =~ ^[0-9]+$ ]] && exec_rest "" "$status"
  exec_lost
}

# Copies the program's output, and exits with its code.
exec_read_events() {
  local line= event= left=$EXEC_LINES
  while ((left-- > 0)) && IFS= read -r -n "$EXEC_LINE_MAX" line <&3; do
    ((${#line} < EXEC_LINE_MAX)) || exec_rest "event: $event"$'\n'"$line"
    case $line in
      'event: '*) event=${line#event: } ;;
      'data: '*) exec_on_event "$event" "${line#data: }" || exec_rest "event: $event"$'\n'"$line"$'\n' ;;
      '') event= ;;
    esac
  done
  ((left >= 0)) || exec_rest "${event:+event: $event$'\n'}"
  exec_lost
}

# exec_on_event EVENT JSON. Returns 1 for events with more than output and the exit code, but for the one of a boot.
exec_on_event() {
  local data
  case $1 in
    stdout | stderr)
      data=${2#'{"data":"'}
      if [[ $1 == stdout ]]; then exec_decode "${data%'"}'}"; else exec_decode "${data%'"}'}" >&2; fi
      ;;
    exit)
      [[ $2 =~ ^'{"exit_code":'([0-9]+)',"truncated":false,' && ${BASH_REMATCH[1]} != 124 ]] || return
      exit "${BASH_REMATCH[1]}"
      ;;
    booted) ;;
    *) return 1 ;;
  esac
}

# exec_decode BASE64. When nobody reads the output any more, the exit code is 128 + SIGPIPE.
exec_decode() {
  printf %s "$1" | base64 -d 2>/dev/null
  [[ ${PIPESTATUS[1]} == 0 ]] || exit 141
}

# exec_rest TEXT [STATUS]: leaves the rest of the response, which TEXT begins, to the client in TypeScript.
exec_rest() {
  { printf %s "$1"; cat; } <&3 | exec_deno "$root/cmd/sbx/exec_rest.ts" "${@:2}"
  exit "${PIPESTATUS[1]}"
}

exec_lost() {
  local after="the program was ended, its VM keeps running: sbx list starts the service again; then run the program again"
  [[ $vm ]] || after="sbx list starts the service again, and shows whether its VM is still there"
  printf 'sbx: %s\n%s\n' "the service went away while the program ran" "$after" >&2
  exit 125
}

#!/bin/sh
# Entry point of a container that has sbx: its service, and one VM called "workload". SIGTERM writes the VM to disk, where the
# next container with the same SBX_HOME brings it back with its programs.
set -eu
profile=${SBX_WORKLOAD_PROFILE:-code}

sbx-service &
service=$!

leave() {
  # Also after a preStop that did it already, and on a host whose QEMU cannot write a VM down.
  sbx suspend workload || sbx stop workload || true
  kill -TERM "$service" 2>/dev/null || true
  wait "$service" || true
  exit 0
}
trap leave TERM INT

until sbx list >/dev/null 2>&1; do
  kill -0 "$service"
  sleep 0.2
done
if sbx info workload >/dev/null 2>&1; then
  sbx resume workload || sbx start workload
else
  sbx create workload --profile "$profile" --no-wait
fi

# Without set -e: a signal ends the wait.
wait "$service" || exit $?

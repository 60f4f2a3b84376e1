import { CALL_VIEW } from './call-layout.ts';

/**
 * Runs the script in its container, once for each call, as `/bin/sh -c CALL_WRAPPER` with the shell of the service's
 * image. Arguments, for tests: the paths of `call-layout.ts`, and the grace period in units of 0.2 s between TERM and
 * KILL.
 *
 * The wrapper and the program in the other container take turns through files: `call` exists → `start` → the script
 * runs → `exit` → `call` is removed → the directories are emptied → `idle`. Either side may be killed and started again
 * at any time. No script starts twice: a container that finds a `call` when it starts has died during that call
 * (`died`).
 *
 * - Nothing in the pod knows the node, so `RESOURCE_ID` is the name of the pod.
 * - The script prints into a file, because the other container cannot read the log of this one.
 * - `stop` ends the script and all processes that it started. Only PID 1 may signal all processes of the container.
 * - TERM concerns only the wrapper: it finishes the current call, then exits.
 * - Another user uploads the output, so it is made readable for all.
 * - If the disk is too full for the exit code, the wrapper exits, and the call ends with `died`.
 */
export const CALL_WRAPPER = `
said=\${1:-${CALL_VIEW.said}} input=\${2:-${CALL_VIEW.input}} output=\${3:-${CALL_VIEW.output}}
marks=\${4:-${CALL_VIEW.marks}} config=\${5:-${CALL_VIEW.config}} grace=\${6:-50}
child='' watcher='' leaving='' looks=0
tell() { if [ $$ -eq 1 ]; then kill "-$1" -1; elif [ -n "$child" ]; then kill "-$1" "$child"; fi; }
nap() {
  if [ "$looks" -lt 100 ]; then looks=$((looks + 1)); sleep 0.1 || sleep 1; else sleep 0.5 || sleep 1; fi
}
empty() {
  for each in "$input" "$output" "$marks"; do
    chmod -R u+rwX "$each"/..?* "$each"/.[!.]* "$each"/*
    rm -rf "$each"/..?* "$each"/.[!.]* "$each"/*
  done
}
watch_for_stop() {
  until [ -e "$said/stop" ]; do sleep 0.2 || sleep 1; done
  tell TERM
  while [ "$grace" -gt 0 ]; do grace=$((grace - 1)); sleep 0.2 || sleep 1; done
  tell KILL
}
answer() {
  read -r call <"$said/call"
  rm -f "$marks/idle"
  : >"$marks/log"
  chmod a+r "$marks/log"
  : >"$marks/start"
  code=143
  if [ "$call" != none ] && [ ! -e "$said/stop" ]; then
    RESOURCE_ID=$HOSTNAME /bin/sh "$config/begin" </dev/null >"$marks/log" 2>&1 &
    child=$!
    watch_for_stop &
    watcher=$!
    wait "$child"
    code=$?
    while [ "$code" -gt 128 ] && kill -0 "$child"; do wait "$child"; code=$?; done
    kill -KILL "$watcher"
    wait "$watcher"
  fi
  child=''
  tell KILL
  if [ "$code" -eq 0 ]; then
    find "$output" ! -type l -exec chmod a+rX {} + || chmod -R a+rX "$output"
  fi
  rm -rf "$marks/exit"
  echo "$code" >"$marks/exit" || exit 1
}
trap 'leaving=1' HUP INT QUIT TERM
exec 2>/dev/null
rm -rf "$marks/idle"
[ ! -e "$said/call" ] || : >"$marks/died"
while :; do
  looks=0
  while [ -e "$said/call" ]; do nap; done
  empty
  [ -z "$leaving" ] || exit 0
  : >"$marks/idle"
  until [ -e "$said/call" ]; do
    [ -z "$leaving" ] || exit 0
    nap
  done
  answer
done
`;

import { CALL_VIEW } from './call-layout.ts';

/**
 * What runs the script in its container, call after call, as `/bin/sh -c CALL_WRAPPER`, by the shell of whatever image it
 * is. Arguments, for tests: where `call-layout.ts` says that things are, and how many moments of 0.2 s a script has between
 * being asked to go and being made to.
 *
 * It and the program beside it take turns by files: a `call` is there → `start` → the script → `exit` → the call is gone →
 * everything is emptied → `idle`. Whoever waits for one of them can be killed and started again: nothing is lost by it, and
 * no script is begun twice, because a container that finds a call when it starts has died over it (`died`).
 *
 * - Which node it is on, nobody in the pod knows: it is told the name of the pod.
 * - The script prints into a file, because nobody beside it sees what its container prints.
 * - `stop` asks it to go. Everything that it started ends with it; only the first process of a container tells everybody.
 * - TERM is for the wrapper alone: a call that is being answered is answered, then it leaves.
 * - Whoever uploads is another user, and may read what others may.
 * - A disk that is full has no room for an exit code: then it dies over it.
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

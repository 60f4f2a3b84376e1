import { SCRIPT_VIEW } from './layout.ts';

/**
 * First in what the shell starts beside itself. TERM that comes before a new process has its own way with signals is
 * forgotten; but it was marked before it was sent.
 */
const UNLESS_STOPPED = 'if [ -e "$marks/stop" ]; then exit 143; fi';

/**
 * What runs the script in its container, as `/bin/sh -c WRAPPER`, by the shell of whatever image it is. Arguments, for
 * tests: the script, the output directory, the directory for its marks, the one where stage-out says that it is done, and
 * how many moments of 0.2 s are not long: together less than the grace period of the pod, 10 s.
 *
 * - Both streams become one, because Kubernetes keeps no order between two.
 * - TERM is for the script and all it started; the wrapper outlives it to leave its exit code. That somebody wanted it to
 *   go is marked before the script hears of it, so that nobody takes for success what it says then. A `wait` that a trap
 *   interrupted gives more than 128, like a script that a signal ended: the second one tells. One that is too late (127)
 *   does not.
 * - What the script left running ends with it, as it would with its container. Only the first process of a container
 *   tells everybody: anywhere else that would be too many.
 * - Whoever uploads is another user, and may read what others may. Not by `chmod -R` alone: the directory itself is not the
 *   script's, and some would stop there.
 * - The exit code is one short line: it is there as a whole or not at all. Whatever the script put in its place is removed.
 *   No room for it: then the exit code is its own, and nothing is uploaded.
 * - A container that ends takes stage-out with it, in seconds: it stays until that is done. If nothing will be uploaded, or
 *   somebody wants it to go, not for long: then only a stage-out that just begins is waited for, which would not hear that
 *   it is to go.
 * - A mark that cannot be left, for want of room or since the script put something in its place, changes nothing else: that is
 *   what `true` is for, since a shell gives up over a `:` that cannot write.
 * - It marks that it goes, so that stage-out goes at the same moment: the kubelet then sees at one look how both ended, and
 *   not only after the seconds that it takes to end a pod.
 */
export const POD_WRAPPER = wrapperOf(SCRIPT_VIEW.script, '');

/**
 * Waits, in a pod that is there before its orders are, until the script may begin. It reads from a pipe that nobody writes
 * to: that costs nothing, and it wakes when somebody opens it, who is another user. Beside the shell, which hears meanwhile that it is to go.
 * Said to be done before it has begun: then nothing is to be run.
 */
const WAIT = `
mkfifo -m 666 "$marks/wake" || rm -f "$marks/wake"
until [ -e "$said/go" ] || [ -e "$said/done" ] || [ -n "$stopped" ]; do
  if [ -p "$marks/wake" ]; then (${UNLESS_STOPPED}; read -r line <"$marks/wake") & else (sleep 0.2 || sleep 1) & fi
  child=$!
  # Told to go just before: then it was not told to the child, and would be waited for.
  [ -n "$stopped" ] || wait "$child"
done
[ -z "$stopped" ] || kill "$child"
child=''
rm -f "$marks/wake"
[ -e "$said/go" ] && [ -z "$stopped" ] || exit 143
`;

/** The same in a pod that waits. It runs what begins the script. */
export const WARM_WRAPPER = wrapperOf(SCRIPT_VIEW.begin, WAIT);

function wrapperOf(script: string, wait: string): string {
  return `
script=\${1:-${script}} output=\${2:-${SCRIPT_VIEW.output}}
marks=\${3:-${SCRIPT_VIEW.marks}} said=\${4:-${SCRIPT_VIEW.said}}
interrupted='' stopped='' child=''
tell() { if [ $$ -eq 1 ]; then kill "-$1" -1; elif [ -n "$child" ]; then kill "-$1" "$child"; fi; }
trap 'interrupted=1 stopped=1; true >"$marks/stop"; tell TERM' HUP INT QUIT TERM
exec 2>/dev/null
${wait}true >"$marks/start"
code=143
if [ -z "$stopped" ]; then
  (${UNLESS_STOPPED}; exec /bin/sh "$script") 2>&1 &
  child=$!
  [ -z "$stopped" ] || tell TERM
  wait "$child"
  code=$?
  while [ -n "$interrupted" ] && [ "$code" -gt 128 ]; do
    interrupted=''
    wait "$child"
    again=$?
    [ "$again" -eq 127 ] || code=$again
  done
fi
child=''
tell KILL
if [ "$code" -eq 0 ]; then
  find "$output" ! -type l -exec chmod a+rX {} + || chmod -R a+rX "$output"
fi
rm -rf "$marks/exit"
echo "$code" >"$marks/exit" || exit "$code"
[ -z "$stopped" ] || exit "$code"
looks=0 left=\${5:-40}
until [ -e "$said/done" ]; do
  if [ "$code" -ne 0 ] || [ -n "$stopped" ]; then
    left=$((left - 1))
    [ "$left" -gt 0 ] || break
    sleep 0.2 || sleep 1
  elif [ "$looks" -lt 50 ]; then
    looks=$((looks + 1))
    sleep 0.1 || sleep 1
  else
    sleep 1
  fi
done
true >"$marks/left"
exit "$code"
`;
}

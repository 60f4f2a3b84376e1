import { SCRIPT_VIEW } from './layout.ts';

/**
 * The first command of each background process. A TERM that arrives before a new process has reset its signal handlers
 * is lost, but the marker file is written before TERM is sent.
 */
const EXIT_IF_STOPPED = 'if [ -e "$marks/stop" ]; then exit 143; fi';

/**
 * Runs the script in its container, as `/bin/sh -c WRAPPER` with the shell of the service's image. Arguments, for
 * tests: the script, the output directory, the directory of marker files, the directory where stage-out reports that it
 * is done, and the longest wait in units of 0.2 s, which is less than the grace period of the pod, 10 s.
 *
 * - Both output streams are merged, because Kubernetes does not keep the order between two.
 * - TERM is passed to the script and all its processes; the wrapper continues, to write the exit code. It writes the
 *   marker `stop` before it signals the script, so that a script that then exits with 0 does not count as successful. A
 *   `wait` that a trap interrupted returns more than 128, like a script that a signal ended; a second `wait` tells them
 *   apart, unless it returns 127 because it is too late.
 * - Processes that the script left running are killed, as they would be at the end of the container. Only PID 1 of a
 *   container signals all processes: elsewhere that would be too many.
 * - Another user uploads the output, so it is made readable for all. `chmod -R` alone is not enough: the script does
 *   not own the directory itself, and some versions stop there.
 * - The exit code is one short line, which is written completely or not at all. Anything that the script put in its
 *   place is removed. If the disk is full, the wrapper exits with the code itself, and nothing is uploaded.
 * - When this container ends, stage-out is stopped within seconds, so the wrapper waits until it is done. If nothing
 *   will be uploaded, or the script was asked to end, it waits only briefly, for a stage-out that is just starting and
 *   would miss the signal to stop.
 * - The script writes no core dumps: the rules of the node would decide where.
 * - A marker that cannot be written (full disk, or something in its place) must not end the wrapper. So it uses `true`:
 *   a shell exits if the redirection of the special built-in `:` fails.
 * - It writes the marker `left` before it exits, so that stage-out exits at the same time: the kubelet then sees both
 *   ends at once, not only after the seconds that it takes to end a pod.
 */
export const POD_WRAPPER = buildWrapper(SCRIPT_VIEW.script, '');

/**
 * Waits, in a warm pod, until the script may start. It reads from a pipe that has no writer, which costs nothing; our
 * program, another user, wakes it by opening the pipe. The read runs in the background, so that the shell can handle
 * TERM meanwhile. If `done` appears before `go`, nothing is run.
 */
const WAIT = `
mkfifo -m 666 "$marks/wake" || rm -f "$marks/wake"
until [ -e "$said/go" ] || [ -e "$said/done" ] || [ -n "$stopped" ]; do
  if [ -p "$marks/wake" ]; then (${EXIT_IF_STOPPED}; read -r line <"$marks/wake") & else (sleep 0.2 || sleep 1) & fi
  child=$!
  # If TERM arrived just before, the child did not get it: do not wait for it.
  [ -n "$stopped" ] || wait "$child"
done
[ -z "$stopped" ] || kill "$child"
child=''
rm -f "$marks/wake"
[ -e "$said/go" ] && [ -z "$stopped" ] || exit 143
`;

/** The wrapper of a warm pod. It runs the program that starts the script. */
export const WARM_WRAPPER = buildWrapper(SCRIPT_VIEW.begin, WAIT);

function buildWrapper(script: string, wait: string): string {
  return `
script=\${1:-${script}} output=\${2:-${SCRIPT_VIEW.output}}
marks=\${3:-${SCRIPT_VIEW.marks}} said=\${4:-${SCRIPT_VIEW.said}}
interrupted='' stopped='' child=''
tell() { if [ $$ -eq 1 ]; then kill "-$1" -1; elif [ -n "$child" ]; then kill "-$1" "$child"; fi; }
trap 'interrupted=1 stopped=1; true >"$marks/stop"; tell TERM' HUP INT QUIT TERM
exec 2>/dev/null
ulimit -c 0
${wait}true >"$marks/start"
code=143
if [ -z "$stopped" ]; then
  (${EXIT_IF_STOPPED}; exec /bin/sh "$script") 2>&1 &
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

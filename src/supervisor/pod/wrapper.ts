import { SCRIPT_VIEW } from './layout.ts';

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
 */
export const WRAPPER = `
script=\${1:-${SCRIPT_VIEW.script}} output=\${2:-${SCRIPT_VIEW.output}}
marks=\${3:-${SCRIPT_VIEW.marks}} said=\${4:-${SCRIPT_VIEW.said}}
interrupted='' stopped='' child=''
tell() { if [ $$ -eq 1 ]; then kill "-$1" -1; elif [ -n "$child" ]; then kill "-$1" "$child"; fi; }
trap 'interrupted=1 stopped=1; : >"$marks/stop"; tell TERM' HUP INT QUIT TERM
exec 2>/dev/null
: >"$marks/start"
code=143
if [ -z "$stopped" ]; then
  /bin/sh "$script" 2>&1 &
  child=$!
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
exit "$code"
`;

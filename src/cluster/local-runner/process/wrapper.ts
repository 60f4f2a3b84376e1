/**
 * What runs a script and keeps its exit code when no manager is there. Arguments: the directory for its marks, the number
 * of the launch, the script, the program `nice` if there is one, how many processes there may be (0: as many as will), and
 * `alone` if nobody else has its user.
 *
 * - Whoever makes the claim may start the script. A manager that came later and found none has made it itself, and then
 *   this one goes. Without an exit code: it would be taken for that of the script, as when there is no disk for a claim.
 * - Alone, it ends whatever else its user has running, before the script and after it. No process can fork its way out of
 *   that, and what has hidden from the manager's eyes does not see the next one who gets the user.
 * - TERM is for the script; the wrapper outlives it to write its exit code. A trap that does something is not inherited,
 *   an ignored signal would be.
 * - Its own standard error is /dev/null: a shell says there what ended its children.
 * - At the end it stays until the manager ends it, or its directory is gone. It keeps the pipe (3), and so what was printed
 *   last, for a manager that comes back; and its process id, and so the process group, cannot become somebody else's.
 * - No disk left for the exit code: then the exit code is its own.
 */
export const WRAPPER = `
[ "$6" = alone ] && kill -KILL -1
set -C
echo $$ >"$1/claim-$2" || kill -KILL $$
set +C
trap : HUP INT TERM
ulimit -c 0
[ "$5" = 0 ] || ulimit -u "$5" || ulimit -p "$5"
case "$4" in
  */nice) "$4" -n 5 /bin/sh "$3" 2>&1 3<&- ;;
  *) /bin/sh "$3" 2>&1 3<&- ;;
esac
code=$?
[ "$6" = alone ] && kill -KILL -1
echo $code >"$1/exit" || exit $code
exec >&-
while [ -e "$1/exit" ]; do sleep 30 || kill -STOP $$; done
`;

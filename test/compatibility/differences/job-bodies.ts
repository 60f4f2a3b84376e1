/** A job in a list, once it has ended well. */
const SUCCEEDED = {
  status: 'Succeeded',
  creation_time: '<time>',
  start_time: '<time>',
  finish_time: '<time>',
};

/** A list of such jobs; masked names are the same. */
export function jobList(...names: string[]): string {
  return `{"jobs":{${names.map((name) => `"${name}":${JSON.stringify(SUCCEEDED)}`).join(',')}}}`;
}

interface Line {
  readonly status: number | string;
  readonly user: string;
}

const LATENCY = String.raw`[\d.]+(?:ns|µs|ms|s)`;
const PATH = String.raw`/(?:job|run)/[\w-]+`;
const ANY: Line = { status: String.raw`\d{3}`, user: String.raw`[\w-]+` };

/** The execution log, and among its lines one like this. What stands `before` a raw line is a time, or nothing. */
export function executionLog(among: Line, before: '' | '<time-nano> ' = ''): RegExp {
  const any = linePattern(ANY, before);
  return new RegExp(String.raw`^(?=.*${linePattern(among, before)})\{"logs":\[${any}(?:,${any})*\]\}$`);
}

/** Each line is there twice: in its columns, and as it is. */
function linePattern({ status, user }: Line, before: string): string {
  const columns = String.raw`<time-nano> \| ${status} \| +${LATENCY} \| +127\.0\.0\.1 \| POST    ${PATH} \| ${user}`;
  return [
    String.raw`\{"timestamp":"<time-nano>","status":${status},"latency":"${LATENCY}","client_ip":"127\.0\.0\.1"`,
    String.raw`"method":"POST","path":"${PATH}","user":"${user}"`,
    String.raw`"raw":"${before}\[GIN-EXECUTIONS-LOGGER\] ${columns}"\}`,
  ].join(',');
}

import type { Admin } from '../../test/kubernetes/admin.ts';

/** By verb and kind, for instance `POST secrets`. */
export type ApiCalls = Readonly<Record<string, number>>;

const KINDS = ['configmaps', 'secrets', 'podtemplates'];

/** How many calls of the kinds that services consist of the API server has answered. */
async function answered(admin: Admin): Promise<Map<string, number>> {
  const { text } = await admin.do('GET', '/metrics');
  const counts = new Map<string, number>();
  for (const [, labels = '', count = ''] of String(text).matchAll(/^apiserver_request_total\{(.*)\} (\S+)$/gm)) {
    const label = (name: string) => new RegExp(`(?:^|,)${name}="([^"]*)"`).exec(labels)?.[1] ?? '';
    const kind = label('resource');
    if (!KINDS.includes(kind) || label('verb') === 'WATCH') continue;
    const call = `${label('verb')} ${kind}`;
    counts.set(call, (counts.get(call) ?? 0) + Number(count));
  }
  return counts;
}

/** The calls that come of something which is done several times: how many of each, for one time. */
export async function callsOf(admin: Admin, times: number, work: () => Promise<void>): Promise<ApiCalls> {
  const before = await answered(admin);
  await work();
  const after = await answered(admin);
  const each = [...after].map(
    ([call, count]) => [call, Math.round((count - (before.get(call) ?? 0)) / times)] as const,
  );
  return Object.fromEntries(each.filter(([, count]) => count > 0));
}

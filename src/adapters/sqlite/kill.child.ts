import { writeSync } from 'node:fs';
import { Secret } from '../../lib/secret.ts';
import type { Version } from '../../lib/version.ts';
import { sampleService } from '../../ports/conformance/sample-service.ts';
import { type LocalCluster, openLocalCluster } from './index.ts';
import { firstOf, isFirst, isLast, KINDS, type Kind, WRITERS } from './kill.schedule.ts';

/**
 * Writes until it is killed, and prints the number of each completed write. `kill.test.ts` starts it with the directory and
 * a prefix for all names.
 */

/** Creates, changes or removes one record, as the schedule defines for write n. */
type Writer = (n: number) => Promise<unknown>;

const createWriter: Record<Kind, (cluster: LocalCluster, key: string) => Writer> = {
  service({ services }, name) {
    let version: Version;
    return async (n) => {
      const service = sampleService(name, { uid: `uid-${n}`, definition: { labels: { n: String(n) } } });
      if (isFirst(n)) {
        const reservation = await services.reserve(name, service.uid);
        if (reservation === 'taken') throw new Error(`${name} is taken`);
        ({ version } = await services.create(reservation, service));
      } else if (isLast(n)) await services.remove(name, version);
      else {
        const uid = `uid-${firstOf(n)}`;
        ({ version } = await services.replace({ ...service, uid }, version));
      }
    };
  },
  secret:
    ({ secrets }, key) =>
    (n) =>
      isLast(n) ? secrets.remove('grant', key) : secrets.put('grant', key, { n: new Secret(String(n)) }),
  journal({ journal }, key) {
    let version: Version;
    return async (n) => {
      if (isFirst(n)) ({ version } = await journal.begin(key, { n }));
      else if (isLast(n)) await journal.finish(key, version);
      else version = await journal.advance(key, version, { n });
    };
  },
};

const [directory = '', prefix = ''] = process.argv.slice(2);
const cluster = openLocalCluster({ directory });
await Promise.all(KINDS.flatMap((kind) => Array.from({ length: WRITERS }, (_, writer) => writeOn(kind, writer))));

async function writeOn(kind: Kind, writer: number): Promise<void> {
  const write = createWriter[kind](cluster, `${prefix}-${writer}`);
  for (let n = 0; ; n++) {
    await write(n);
    writeSync(1, `${kind} ${writer} ${n}\n`);
  }
}

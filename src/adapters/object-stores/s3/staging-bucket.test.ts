import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { S3Api } from './s3-api.ts';
import { removeObjectsUnder } from './staging-bucket.ts';

const STAGING = 'staging';
const AREA = 'cow/cow-1/';

/** A bucket whose manager dies before the given removal. */
function dyingBefore(removal: number, keys: Set<string>): S3Api {
  let removals = 0;
  const s3: Pick<S3Api, 'staging' | 'uploads' | 'list' | 'removeAll'> = {
    staging: STAGING,
    uploads: async () => [],
    list: async (_, prefix, most) => {
      const found = [...keys].filter((key) => key.startsWith(prefix)).toSorted();
      const objects = found.slice(0, most).map((key) => ({ key })) as never;
      return { objects, more: found.length > most };
    },
    removeAll: async (_, removed) => {
      if (removed.length === 0) return;
      if (++removals === removal) throw new Error('killed');
      for (const key of removed) keys.delete(key);
    },
  };
  return s3 as S3Api;
}

const files = (count: number) => Array.from({ length: count }, (_, n) => `${AREA}1/files/${n}`);

for (const count of [1, 3, 2_500]) {
  test(`staging bucket: an interrupted removal of ${count} files leaves no placement record that a later removal would not find`, async () => {
    for (let removal = 1; ; removal++) {
      const sources = [...files(count), `${AREA}1/manifest.json`];
      const keys = new Set([...sources, ...files(count).map((key) => `.placed/${key}/digest`), 'cow/cow-10/1/files/x']);
      const under = (prefix: string) => [...keys].filter((key) => key.startsWith(prefix)).length;
      try {
        await removeObjectsUnder(STAGING, AREA, dyingBefore(removal, keys));
        assert.deepEqual([...keys], ['cow/cow-10/1/files/x']);
        return;
      } catch (error) {
        assert.match(String(error), /killed/);
        assert.ok(under(AREA) > 0, 'the prefix is still listed');
        // A manager that was paused during a copy finds no file without its placement record.
        if (under('.placed/') < count) assert.equal(under(`${AREA}1/files/`), 0);
      }
    }
  });
}

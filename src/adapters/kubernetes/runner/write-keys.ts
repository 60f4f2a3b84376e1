import { ORDER_FILES } from '../../../staging/index.ts';
import type { Api } from '../client/api.ts';
import { SECRET, type SecretObject, type Stored } from '../client/kinds.ts';
import { toBase64 } from './attempt-secret.ts';
import { change } from './change.ts';
import { remind, renewOrders } from './claim.ts';
import { notesOf } from './notes.ts';
import { claimedAt, type Pod } from './pod.ts';

/**
 * Puts renewed keys where the pod of an attempt reads them: in the record, or, if it has waited, in the Secret of its own
 * name. That one is not there before its orders are, and then it has the newest already.
 */
export async function writeKeys(
  keys: string,
  record: Stored<SecretObject>,
  pod: Stored<Pod> | undefined,
  api: Api,
): Promise<void> {
  if (pod && claimedAt(pod) !== undefined) await renewOrders(pod, keys, api);
  else
    await change<SecretObject>(api, SECRET, record, (there) => {
      const { end, pod: chosen } = notesOf(there);
      const nobodyReads = end !== undefined || chosen !== undefined;
      return nobodyReads ? undefined : { ...there, data: { ...there.data, [ORDER_FILES.stores]: toBase64(keys) } };
    });
  if (pod?.spec.nodeName !== undefined) await remind(pod, api);
}

import { ORDER_FILES } from '../../../supervisor/index.ts';
import type { Api } from '../api/api.ts';
import { SECRET, type SecretObject, type Stored } from '../api/kinds.ts';
import { base64 } from './pod/attempt-secret.ts';
import { claimedAt, type Pod } from './pod/pod.ts';
import { change } from './state/change.ts';
import { notesOf } from './state/notes.ts';
import { remind, renewOrders } from './warm/claim.ts';

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
      return nobodyReads ? undefined : { ...there, data: { ...there.data, [ORDER_FILES.stores]: base64(keys) } };
    });
  if (pod?.spec.nodeName !== undefined) await remind(pod, api);
}

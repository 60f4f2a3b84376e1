import { PeerError } from '../../peer/peer.ts';

/** What comes of a request within its time. It may still take effect afterwards: who gives up has to reckon with that. */
export async function within<T>(milliseconds: number, request: Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    reject(new PeerError('unreachable', `it has not answered within ${milliseconds / 1000} s`));
  }, milliseconds);
  try {
    return await Promise.race([request, late]);
  } finally {
    clearTimeout(timer);
    request.catch(() => {});
  }
}

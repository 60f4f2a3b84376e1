import type { Lines, PeerAddress } from '../../federation/index.ts';
import type { Origin, Target } from '../terms.ts';
import { HttpOrigin } from './http-origin.ts';
import { HttpTarget } from './http-target.ts';
import { UpstreamTarget } from './upstream-target.ts';

/** How other managers are spoken to about jobs, by their addresses. */
export interface Ways {
  targetAt(address: PeerAddress): Target;
  originAt(address: PeerAddress): Origin;
}

export function waysOver(lines: Lines, self: { readonly target: Target; readonly origin: Origin }): Ways {
  return {
    targetAt(address) {
      const line = lines.lineTo(address);
      if (line === 'self') return self.target;
      return address.kind === 'upstream' ? new UpstreamTarget(address, line) : new HttpTarget(address, line);
    },
    originAt(address) {
      const line = lines.lineTo(address);
      return line === 'self' ? self.origin : new HttpOrigin(address, line);
    },
  };
}

import type { Invitation } from '../client/issuer.ts';
import { printable } from '../client/table.ts';
import type { Terminal } from '../client/terminal.ts';

/** Says where to say yes, while the program waits for it. */
export function invite({ address, code }: Invitation, terminal: Terminal): void {
  terminal.ask(`Open ${printable(address)} in a browser and approve the code ${printable(code)} …`);
}

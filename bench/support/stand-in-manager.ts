import { startStandIn } from '../../src/peers/client/stand-in.fixture.ts';

/**
 * The other side of the peer protocol in a process of its own, which keeps its workers in a map: whoever asks it pays for
 * asking alone. Says its address, and stays until it is ended: `node bench/support/stand-in-manager.ts`.
 */

const standIn = await startStandIn();
standIn.fault = () => {
  // Of what it was asked it remembers nothing; there is much of it.
  standIn.requests.length = 0;
  return false;
};
process.stdout.write(`${standIn.endpoint}\n`);

import { ControlPlane } from './control-plane.ts';

/** A test process that is killed. */
const { directory, port } = await ControlPlane.start();
process.stdout.write(`${JSON.stringify({ directory, port })}\n`);
setInterval(() => {}, 60_000);

import { Cluster } from './cluster.ts';
import { Pods } from './pods.ts';

/** A test process that is killed while a pod runs. */
const cluster = await Cluster.start({ id: Number(process.argv[2]) });
const pods = await Pods.inNewNamespace(cluster.admin);
await pods.create('runs', 'echo begun; sleep 1000');
await pods.waitForOutput('runs', 'begun');
process.stdout.write('runs\n');
setInterval(() => {}, 60_000);

import { stageIn } from './stage-in.ts';
import { stageOut } from './stage-out.ts';
import { stageWait } from './stage-wait.ts';

/** Runs one of the programs of a pod in the directories of a test. */
const [program, orders = '', shared = '', termination = '', given = ''] = process.argv.slice(2);
const layout = { orders, shared, termination };
if (program === 'stage-in') process.exit(await stageIn(layout));
const stopping = new AbortController();
process.on('SIGTERM', () => stopping.abort());
if (program === 'stage-wait') await stageWait(stopping.signal, undefined, { ...layout, given });
else await stageOut(stopping.signal, layout);
process.exit(0);

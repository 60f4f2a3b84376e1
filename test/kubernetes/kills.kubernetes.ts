import { ONE_ROUND } from './kill-gate.ts';
import { testServices } from './kill-services.ts';

testServices(ONE_ROUND, 600_000);

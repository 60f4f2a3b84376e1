import { ONE_ROUND } from './steps-gate.ts';
import { testServices } from './steps-services.ts';

testServices(ONE_ROUND, 600_000);

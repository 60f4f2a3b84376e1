import type { Field } from '../base/fields.ts';
import { clusterIdProblem, serviceNameProblem } from './names.ts';

/** Names, where another manager wrote them. */

export const clusterId: Field<string> = {
  is: 'a cluster id',
  read: (raw) => (typeof raw === 'string' && !clusterIdProblem(raw) ? raw : undefined),
};

export const serviceName: Field<string> = {
  is: 'the name of a service',
  read: (raw) => (typeof raw === 'string' && !serviceNameProblem(raw) ? raw : undefined),
};

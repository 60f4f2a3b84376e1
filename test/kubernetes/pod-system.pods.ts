import { WITH_PODS } from '../support/whole-system.ts';
import { describeWithPods } from './pod-system.ts';

describeWithPods(WITH_PODS);

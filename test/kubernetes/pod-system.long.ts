import { WITH_PODS_LONG } from '../support/whole-system.ts';
import { describeWithPods } from './pod-system.ts';

describeWithPods(WITH_PODS_LONG);

import { describeObjectStore } from '../../src/storage/object-store.conformance.ts';
import { startUnderTest } from './under-test.ts';

describeObjectStore('MinIO', startUnderTest);

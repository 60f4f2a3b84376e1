import { describeObjectStore } from '../../src/ports/conformance/object-store.conformance.ts';
import { startUnderTest } from './under-test.ts';

describeObjectStore('MinIO', startUnderTest);

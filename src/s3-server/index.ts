export { S3Error } from './lib/errors.ts';
export { childElements, childText, type Element, type Elements, readXml, writeXml } from './lib/xml.ts';
export type { BucketView, ObjectStoreServer } from './object-store-server.ts';
export { openObjectStore } from './open.ts';
export { encodePath } from './signature/request-target.ts';
export { presignUrl, signRequest } from './signature/sign-request.ts';
export { SigningSecret } from './signature/signature-v4.ts';
export type { IdentitySeal } from './store/identities.ts';
export { ATTEMPT_HEADER, INPUT_HEADER } from './store/objects.ts';

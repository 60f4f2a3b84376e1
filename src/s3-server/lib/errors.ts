import { OscarError } from '../../lib/oscar-error.ts';

/** All error codes of the server, with status and default message. */
const ERRORS = {
  AccessDenied: [403, 'Access Denied.'],
  AuthorizationHeaderMalformed: [400, 'The authorization header that you provided is not valid.'],
  AuthorizationQueryParametersError: [400, 'The query parameters that carry the signature are not valid.'],
  BadDigest: [400, 'The Content-Md5 or checksum you specified did not match what we received.'],
  BucketAlreadyExists: [409, 'The requested bucket name is not available: choose another one.'],
  BucketAlreadyOwnedByYou: [409, 'Your previous request to create the named bucket succeeded and you already own it.'],
  BucketNotEmpty: [409, 'The bucket you tried to delete is not empty.'],
  EntityTooLarge: [400, 'Your proposed upload exceeds the maximum allowed object size.'],
  EntityTooSmall: [400, 'Your proposed upload is smaller than the minimum allowed object size.'],
  ExpiredToken: [400, 'The provided token has expired: ask for new keys.'],
  IncompleteBody: [400, 'You did not provide the number of bytes specified by the length of the request.'],
  InternalError: [500, 'We encountered an internal error, please try again.'],
  InvalidAccessKeyId: [403, 'The Access Key Id you provided does not exist in our records.'],
  InvalidArgument: [400, 'Invalid Argument.'],
  InvalidBucketName: [400, 'The specified bucket is not valid.'],
  InvalidDigest: [400, 'The Content-Md5 or checksum you specified is not valid.'],
  InvalidPart: [400, 'One or more of the specified parts could not be found, or its ETag or checksum does not match.'],
  InvalidPartOrder: [400, 'The list of parts was not in ascending order.'],
  InvalidRange: [416, 'The requested range is not satisfiable.'],
  InvalidRequest: [400, 'Invalid Request.'],
  InvalidTag: [400, 'The tags provided are not valid.'],
  InvalidTokenId: [403, 'The security token included in the request is invalid.'],
  InvalidURI: [400, 'The specified URI could not be parsed.'],
  KeyTooLongError: [400, 'Your key is too long: at most 1024 bytes.'],
  MalformedPolicy: [400, 'The policy is not valid or not supported by this server.'],
  MalformedXML: [400, 'The XML you provided was not well-formed or did not validate against our published schema.'],
  MaxMessageLengthExceeded: [400, 'Your request was too big.'],
  MetadataTooLarge: [400, 'Your metadata headers exceed the maximum allowed metadata size of 2 KB.'],
  MethodNotAllowed: [405, 'The specified method is not allowed against this resource.'],
  MissingContentLength: [411, 'You must provide the Content-Length HTTP header.'],
  NoSuchBucket: [404, 'The specified bucket does not exist.'],
  NoSuchBucketPolicy: [404, 'The bucket policy does not exist: who may reach a bucket is set through OSCAR.'],
  NoSuchCORSConfiguration: [404, 'The CORS configuration does not exist.'],
  NoSuchKey: [404, 'The specified key does not exist.'],
  NoSuchLifecycleConfiguration: [404, 'The lifecycle configuration does not exist.'],
  NoSuchTagSet: [404, 'The TagSet does not exist.'],
  NoSuchUpload: [404, 'The specified multipart upload does not exist: it may have been completed or aborted.'],
  NoSuchVersion: [404, 'The specified version does not exist: this server keeps no versions.'],
  NotImplemented: [501, 'A header or query you provided implies functionality that is not implemented.'],
  ObjectLockConfigurationNotFoundError: [404, 'Object Lock configuration does not exist for this bucket.'],
  PreconditionFailed: [412, 'At least one of the pre-conditions you specified did not hold.'],
  RequestTimeTooSkewed: [403, "The difference between the request time and the server's time is too large."],
  ServerSideEncryptionConfigurationNotFoundError: [404, 'The server side encryption configuration was not found.'],
  ServiceUnavailable: [503, 'The server is stopping or cannot write: please try again.'],
  SignatureDoesNotMatch: [
    403,
    'The request signature we calculated does not match the signature you provided. Check your key and signing method.',
  ],
  XAmzContentSHA256Mismatch: [400, "The provided 'x-amz-content-sha256' header does not match what was computed."],
  XMinioAdminBucketQuotaExceeded: [403, 'Bucket quota exceeded.'],
  XMinioStorageFull: [507, 'The disk of this server is full: delete objects that are not needed, then try again.'],
  InvalidParameterValue: [400, 'An invalid or out-of-range value was supplied for a parameter.'],
} as const satisfies Record<string, readonly [number, string]>;

export type S3ErrorCode = keyof typeof ERRORS;

/** An error response with one of S3's codes. */
export class S3Error extends OscarError<S3ErrorCode> {
  readonly status: number;

  constructor(code: S3ErrorCode, message?: string, options?: ErrorOptions) {
    super(code, message ?? ERRORS[code][1], options);
    this.status = ERRORS[code][0];
  }
}

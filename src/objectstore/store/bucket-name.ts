import { S3Error } from '../errors.ts';

/** S3's rules for the name of a bucket. Labels and dots only, so that no name is a path or a host address. */
export function isBucketName(name: string): boolean {
  return (
    /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(name) &&
    !/\.\.|\.-|-\./.test(name) &&
    !/^\d{1,3}(\.\d{1,3}){3}$/.test(name)
  );
}

export function checkBucketName(name: string): void {
  if (isBucketName(name)) return;
  throw new S3Error(
    'InvalidBucketName',
    'The name of a bucket has 3 to 63 characters: small letters, digits, dots and dashes, with a letter or digit at both ends.',
  );
}

import type { KeyScope } from '../../../ports/index.ts';

/** What a scope allows, as a policy document: these objects and prefixes to read, below these prefixes to write. */
export function scopePolicy({ read, readUnder = [], write }: KeyScope): string {
  const arn = (bucket: string, key: string) => `arn:aws:s3:::${bucket}/${key}`;
  const below = ({ bucket, prefix }: { bucket: string; prefix: string }) => arn(bucket, `${literal(prefix)}*`);
  const statements = [
    {
      Action: ['s3:GetObject'],
      Resource: [...read.map(({ bucket, key }) => arn(bucket, literal(key))), ...readUnder.map(below)],
    },
    {
      Action: ['s3:PutObject', 's3:AbortMultipartUpload', 's3:ListMultipartUploadParts'],
      Resource: write.map(below),
    },
  ];
  return JSON.stringify({
    Version: '2012-10-17',
    Statement: statements.filter(({ Resource }) => Resource.length > 0).map((each) => ({ Effect: 'Allow', ...each })),
  });
}

/** A key may hold what a policy takes for wildcards: written so that it means itself. */
function literal(key: string): string {
  return key.replace(/[*?$]/g, (character) => `\${${character}}`);
}

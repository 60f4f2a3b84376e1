/** Large enough that a script has to do for about a second, small enough that many are uploaded in a moment. */
const WIDTH = 480;
const HEIGHT = 360;

/** Colours of three hues in stripes that lie another way in each picture: plain PPM, which any program reads. */
export function picture(index: number): string {
  const lines: string[] = ['P3', `# picture ${index} of a demonstration`, `${WIDTH} ${HEIGHT}`, '255'];
  for (let y = 0; y < HEIGHT; y++) {
    let line = '';
    for (let x = 0; x < WIDTH; x++) {
      const hue = (x * index + y * 3) % 256;
      line += `${hue} ${255 - hue} ${(x + y) % 256} `;
    }
    lines.push(line);
  }
  return `${lines.join('\n')}\n`;
}

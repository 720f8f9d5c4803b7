// Words that depend on a number.

/** `1 message`, `4,211 messages`; the number as it is shown, and as it is. */
export const some = (shown, number, word) => `${shown} ${word}${number === 1 ? '' : 's'}`;

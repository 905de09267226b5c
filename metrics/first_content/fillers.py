"""Words that fill the wait, per language: hesitations, sounds of listening, phrases that ask for time, set openings.

Change a list and change its number. "Yes" and "no" are in none: they answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Fillers:
    """The list of one language. Written in lower case; punctuation, apostrophes and hyphens do not matter.

    name: with its version · sounds: one word each; letters in a row count twice at most ("hmmmm" is "hmm") · phrases:
    fillers wherever they stand · marked: only where a punctuation mark or a pause follows, since the same words may
    begin a sentence of substance ("so far", "right now", "这个问题") · misheard: what recognisers write for a hum, only
    where a pause follows · openings: what is said after them up to the next mark belongs to them ("let me check that
    for you,").
    """

    name: str
    sounds: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()
    misheard: tuple[str, ...] = ()
    openings: tuple[str, ...] = ()
    promises: tuple[str, ...] = ()


def _words(*lines: str) -> tuple[str, ...]:
    return tuple(word for line in lines for word in line.split())


def _each(starts: tuple[str, ...], ends: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{start} {end}" for start in starts for end in ends)


_GIVE_ME: Final = _each(("give me a", "give me just a", "just give me a"), ("second", "sec", "moment", "minute"))
_EN: Final = Fillers(
    "fillers-en/2",
    sounds=(
        *("um", "umm", "uhm", "uh", "uhh", "er", "err", "erm", "hm", "hmm", "mm", "mmm", "mhm", "mmhm", "mmhmm"),
        *("uhhuh", "uhuh", "huh", "ah", "ahh", "aha", "oh", "ohh", "ooh", "eh"),
        *("uh-oh", "oh-oh", "ah-ha", "um-hum", "um-hmm", "uh-hum", "hmm-hmm", "huh-uh"),
    ),
    phrases=(
        *("one moment", "one moment please", "one second", "one second please", "one sec", "just one moment"),
        *("just one second", "just a moment", "just a moment please", "just a second", "just a sec", "just a minute"),
        *(
            "a moment please",
            "hold on",
            "hold on a second",
            "hang on",
            "hang on a second",
            "please hold",
            "please wait",
        ),
        *("bear with me", "wait a moment", "wait a second"),
        *_each(_GIVE_ME, ("please",)),
    ),
    marked=(
        *_GIVE_ME,
        *("okay", "ok", "okay then", "right", "all right", "alright", "sure", "sure thing", "of course", "certainly"),
        *("absolutely", "no problem", "well", "so", "now", "you know", "i mean", "like", "i see", "i understand"),
        *("got it", "good question", "great question", "that's a good question", "that's a great question"),
        *("thanks for asking", "thank you for asking", "basically", "actually", "anyway"),
    ),
    misheard=("him", "whom", "hum", "hem", "ham", "mom", "m", "em", "her", "moment"),
    openings=(
        *(
            "let me see",
            "let's see",
            "let me think",
            "let me check",
            "let me look",
            "let me have a look",
            "let me find",
        ),
        *("let me take a look", "let me pull up"),
        *_each(_GIVE_ME, ("to", "while")),
    ),
    promises=(
        *("i'll check", "i'll check that", "i'll check that for you", "i'll look", "i'll look that up"),
        *("i'll look that up for you", "i'll have a look", "i'll take a look"),
    ),
)
_ZH: Final = Fillers(
    "fillers-zh/2",
    sounds=_words("嗯 呃 唔 啊 哦 噢 喔 哎 诶 欸 唉"),
    phrases=_words(
        "请稍等 請稍等 请稍等一下 請稍等一下 稍等 稍等一下 请您稍等 請您稍等 请等一下 請等一下",
        "等一下 等一等 等等 稍候 请稍候 請稍候 稍等片刻 请稍等片刻 請稍等片刻 请您稍等一下 請您稍等一下",
        "请您稍等片刻 請您稍等片刻 稍候片刻 请稍候片刻 請稍候片刻 稍微等一下 请稍微等一下 請稍微等一下",
    ),
    marked=_words(
        "额 額 这个 這個 那个 那個 就是 就是说 就是說 然后 然後 好 好的 好吧 行 那么 那麼",
        "当然 當然 没问题 沒問題 明白 明白了 知道了 了解 我明白了 我知道了 好问题 好問題",
        "这是个好问题 這是個好問題 这是一个好问题 這是一個好問題 怎么说呢 怎麼說呢 是这样 是這樣",
    ),
    openings=_words(
        "让我想 讓我想 让我看 讓我看 让我查 讓我查 我想想 我想一想",
    ),
    promises=_words(
        "我来查 我來查 我来查一下 我來查一下 我来看看 我來看看 我看看 我看一下 我查一下",
    ),
)
_DE: Final = Fillers(
    "fillers-de/2",
    sounds=("äh", "ähh", "ähm", "öh", "öhm", "hm", "hmm", "mm", "mhm", "aha", "ah", "ach", "oh", "eh", "em", "tja"),
    phrases=(
        *("einen moment", "einen moment bitte", "moment", "moment bitte", "moment mal", "einen augenblick"),
        *("einen augenblick bitte", "eine sekunde", "sekunde", "bitte warten", "bitte warten sie"),
    ),
    marked=(
        *("also", "na ja", "naja", "nun", "nun ja", "gut", "okay", "ok", "alles klar", "klar", "natürlich", "gerne"),
        *("sicher", "verstehe", "ich verstehe", "ach so", "gute frage", "das ist eine gute frage", "sozusagen", "so"),
    ),
    openings=(
        *("lass mich überlegen", "lassen sie mich überlegen", "lass mich nachdenken", "lassen sie mich nachdenken"),
        *("lass mich nachsehen", "lassen sie mich nachsehen", "lass mich schauen", "lassen sie mich schauen"),
        *("mal sehen", "mal schauen"),
    ),
    promises=("ich schaue", "ich schaue nach", "ich schaue mal", "ich schaue mal nach", "ich sehe nach"),
)
_FR: Final = Fillers(
    "fillers-fr/2",
    sounds=("euh", "heu", "hum", "hm", "hmm", "mm", "mhm", "ah", "oh", "eh", "ben", "bah", "hein"),
    phrases=(
        *("un instant", "un instant s'il vous plaît", "un moment", "un moment s'il vous plaît", "une seconde"),
        *("une petite seconde", "attendez", "attends", "veuillez patienter", "ne quittez pas"),
    ),
    marked=(
        *("alors", "bon", "eh bien", "bien", "bien sûr", "d'accord", "ok", "okay", "très bien", "donc", "voilà"),
        *("je vois", "je comprends", "entendu", "bonne question", "c'est une bonne question", "en fait", "enfin"),
    ),
    openings=(
        *_each(
            ("laissez-moi", "laisse-moi"),
            ("voir", "vérifier", "regarder", "réfléchir", "chercher", "consulter", "un instant", "une seconde"),
        ),
        *("voyons", "voyons voir"),
    ),
    promises=("je regarde", "je vérifie", "je vais vérifier", "je vais regarder"),
)
_ES: Final = Fillers(
    "fillers-es/2",
    sounds=("eh", "ehh", "em", "emm", "hm", "hmm", "mm", "mmm", "mhm", "ah", "ajá", "oh", "uh", "um"),
    phrases=(
        *("un momento", "un momento por favor", "un segundo", "un segundo por favor", "un instante", "espera"),
        *("espere", "espere un momento", "espera un momento", "dame un segundo", "deme un segundo", "deme un momento"),
    ),
    marked=(
        *("este", "bueno", "pues", "bien", "muy bien", "vale", "ok", "okay", "claro", "claro que sí", "por supuesto"),
        *(
            "de acuerdo",
            "entiendo",
            "ya veo",
            "entonces",
            "o sea",
            "buena pregunta",
            "es una buena pregunta",
            "así que",
        ),
    ),
    openings=(
        *_each(
            ("déjame", "déjeme"),
            (
                *("ver", "verlo", "pensar", "revisar", "revisarlo", "comprobar", "comprobarlo", "verificar", "buscar"),
                *("mirar", "consultar", "un momento", "un segundo"),
            ),
        ),
        *("a ver", "veamos", "vamos a ver"),
    ),
    promises=("voy a comprobar", "voy a buscar"),
)
_IT: Final = Fillers(
    "fillers-it/2",
    sounds=("eh", "ehm", "em", "hm", "hmm", "mm", "mhm", "ah", "oh", "uhm", "beh", "mah", "boh"),
    phrases=(
        *("un momento", "un momento per favore", "un attimo", "un attimo per favore", "un secondo", "aspetta"),
        *("aspetti", "aspetti un momento", "aspetta un momento", "dammi un secondo", "mi dia un momento"),
    ),
    marked=(
        *("allora", "dunque", "bene", "va bene", "ok", "okay", "certo", "certamente", "d'accordo", "capisco"),
        *("cioè", "ecco", "insomma", "quindi", "ottima domanda", "buona domanda", "è una buona domanda"),
    ),
    openings=(
        *_each(
            ("fammi", "mi faccia", "lasciami", "mi lasci"),
            ("vedere", "pensare", "controllare", "verificare", "cercare", "guardare", "dare un'occhiata"),
        ),
        "vediamo",
    ),
)
_PT: Final = Fillers(
    "fillers-pt/2",
    sounds=("hum", "hm", "hmm", "mm", "mhm", "ah", "ahn", "oh", "eh", "uh", "um-hum", "aham"),
    phrases=(
        *("um momento", "um momento por favor", "um segundo", "um instante", "um instante por favor", "espera"),
        *("espere", "espere um momento", "só um momento", "só um segundo", "só um minuto", "aguarde"),
        *("aguarde um momento", "por favor aguarde"),
    ),
    marked=(
        *("bom", "bem", "então", "ok", "okay", "tá", "tá bom", "claro", "com certeza", "certo", "entendo", "entendi"),
        *("pois", "pois é", "tipo", "né", "boa pergunta", "é uma boa pergunta", "muito bem", "tudo bem"),
    ),
    openings=(
        *_each(
            ("deixa eu", "deixe-me", "deixa-me"),
            ("ver", "pensar", "verificar", "conferir", "checar", "olhar", "procurar", "consultar"),
        ),
        *("vamos ver", "vejamos"),
    ),
    promises=("vou verificar",),
)
_JA: Final = Fillers(
    "fillers-ja/2",
    sounds=_words("えー えっと えーと えーっと ええと あー あのー うーん んー そのー"),
    phrases=_words(
        "少々お待ちください 少々お待ち下さい 少しお待ちください ちょっと待ってください お待ちください ちょっと待って",
        "そうですね そうですねえ なるほど なるほどですね",
    ),
    marked=_words(
        "あの うん まあ はい ええ では じゃあ それでは 承知しました かしこまりました わかりました 分かりました",
        "いい質問ですね",
    ),
    openings=_words("ちょっと考え 考えさせて"),
    promises=_words(
        "確認し 確認します 確認しますね 確認いたします 調べてみ 調べてみます 調べてみますね ちょっと調べ",
        "ちょっと調べてみます ちょっと調べてみますね",
    ),
)

LISTS: Final = MappingProxyType(
    {"en": _EN, "zh": _ZH, "de": _DE, "fr": _FR, "es": _ES, "it": _IT, "pt": _PT, "ja": _JA}
)
"""By ISO 639-1."""

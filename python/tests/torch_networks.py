"""Networks of torchvision, timm and transformers for torch_modules.CASES, all small and with random weights."""
import importlib

import torch
from torch import nn

from torch_modules import call, case, ints, of, rand


class Lazy:
    """A package that is imported when something of it is asked for."""

    def __init__(self, name):
        self.name = name

    def __getattr__(self, attribute):
        return getattr(importlib.import_module(self.name), attribute)


# torchvision.
def vision(module):
    return Lazy(f"torchvision.models.{module}")


tv, detection = Lazy("torchvision.models"), Lazy("torchvision.models.detection")
case("torchvision.resnet", lambda: vision("resnet").ResNet(vision("resnet").BasicBlock, [1, 1, 1, 1], num_classes=10), of(3, 32, 32))
case("torchvision.resnext", lambda: vision("resnet").ResNet(vision("resnet").Bottleneck, [1, 1, 1, 1], num_classes=10, groups=8, width_per_group=4,
                                                            replace_stride_with_dilation=[False, False, True]), of(3, 32, 32))
case("torchvision.mobilenet_v2", lambda: vision("mobilenetv2").MobileNetV2(10, 0.35, [[1, 16, 1, 1], [6, 24, 2, 2], [6, 32, 2, 2]]), of(3, 32, 32))
case("torchvision.mobilenet_v3_small", lambda: tv.mobilenet_v3_small(num_classes=10, width_mult=0.5), of(3, 64, 64))
case("torchvision.efficientnet_b0", lambda: tv.efficientnet_b0(num_classes=10), of(3, 64, 64))
case("torchvision.regnet_y_400mf", lambda: tv.regnet_y_400mf(num_classes=10), of(3, 64, 64))
case("torchvision.vit", lambda: vision("vision_transformer").VisionTransformer(32, 8, 2, 4, 48, 96, num_classes=10), of(3, 32, 32))
case("torchvision.swin", lambda: vision("swin_transformer").SwinTransformer([4, 4], 24, [2, 2], [2, 4], [4, 4], num_classes=10), of(3, 32, 32))
case("torchvision.swin_v2", lambda: vision("swin_transformer").SwinTransformer([4, 4], 24, [2, 2], [2, 4], [4, 4], num_classes=10, block=vision("swin_transformer").SwinTransformerBlockV2,
                                                                               downsample_layer=vision("swin_transformer").PatchMergingV2), of(3, 40, 32))
case("torchvision.convnext", lambda: vision("convnext").ConvNeXt([vision("convnext").CNBlockConfig(16, 32, 2), vision("convnext").CNBlockConfig(32, None, 1)], num_classes=10), of(3, 32, 32))
case("torchvision.densenet", lambda: vision("densenet").DenseNet(8, (2, 2, 2), 16, num_classes=10), of(3, 32, 32))
case("torchvision.squeezenet1_1", lambda: tv.squeezenet1_1(num_classes=10), of(3, 64, 64))
case("torchvision.shufflenet_v2", lambda: vision("shufflenetv2").ShuffleNetV2([2, 2, 2], [8, 16, 32, 64, 128], 10), of(3, 32, 32))
case("torchvision.mnasnet", lambda: tv.mnasnet0_5(num_classes=10), of(3, 64, 64))
case("torchvision.googlenet", lambda: tv.googlenet(num_classes=10, aux_logits=False, init_weights=False), of(3, 64, 64))
case("torchvision.inception_v3", lambda: tv.inception_v3(num_classes=10, aux_logits=False, init_weights=False), of(3, 96, 96))
case("torchvision.alexnet", lambda: tv.alexnet(num_classes=10), of(3, 64, 64))
case("torchvision.maxvit", lambda: vision("maxvit").MaxVit((32, 32), 16, 4, [16, 32], [1, 1], 8, 0.0, num_classes=10), of(3, 32, 32))
case("torchvision.fcn", lambda: vision("segmentation").fcn_resnet50(weights=None, weights_backbone=None, num_classes=4), of(3, 48, 48))
case("torchvision.lraspp", lambda: vision("segmentation").lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=4), of(3, 64, 64))
case("torchvision.deeplabv3", lambda: vision("segmentation").deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=4), of(3, 64, 64))
case("torchvision.video", lambda: vision("video.resnet").r3d_18(num_classes=5).layer1, of(64, 4, 10, 10))
case("torchvision.ssdlite", lambda: Heads(detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=4)), of(3, 96, 96))
case("torchvision.roi_align", lambda: RoI(), lambda n: (rand(n, 8, 16, 16), torch.rand(5, 4).cumsum(1) * 5, torch.rand(5)))
case("torchvision.vgg11_bn", lambda: tv.vgg11_bn(num_classes=5), of(3, 32, 32))
case("torchvision.r2plus1d", lambda: vision("video.resnet").r2plus1d_18(num_classes=5).stem, of(3, 4, 16, 16))
case("torchvision.raft", lambda: tv.optical_flow.raft_small(weights=None), lambda n: (torch.rand(n, 3, 128, 128) * 2 - 1, torch.rand(n, 3, 128, 128) * 2 - 1), train=False, batches=False)
case("torchvision.deform_conv2d", lambda: Deformable(), lambda n: (rand(n, 4, 8, 8), rand(n, 18, 8, 8)), train=False)
case("torchvision.feature_pyramid", lambda: Pyramid(), of(3, 32, 32))
case("torchvision.boxes", call(lambda a, b: (Lazy("torchvision.ops").generalized_box_iou(a, b), Lazy("torchvision.ops").box_convert(a, "xyxy", "cxcywh"), Lazy("torchvision.ops").sigmoid_focal_loss(a, b.sigmoid()))),
     lambda n: (torch.rand(n, 4).cumsum(1), torch.rand(n, 4).cumsum(1)), batches=False)


class Deformable(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = Lazy("torchvision.ops").DeformConv2d(4, 6, 3, padding=1)

    def forward(self, x, offset):
        return self.conv(x, offset)


class Pyramid(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 16, 3, 2, 1)
        self.pyramid = Lazy("torchvision.ops").FeaturePyramidNetwork([8, 16], 8)

    def forward(self, x):
        a = self.a(x)
        return self.pyramid({"a": a, "b": self.b(a.relu())})


class Heads(nn.Module):
    """The part of a detection model before boxes are chosen, which is Python on lists."""

    def __init__(self, model):
        super().__init__()
        self.backbone, self.head = model.backbone, model.head

    def forward(self, x):
        return self.head(list(self.backbone(x).values()))


class RoI(nn.Module):
    def forward(self, x, boxes, scores):
        ops = Lazy("torchvision.ops")
        return ops.roi_align(x, [boxes] * x.shape[0], 3, sampling_ratio=2), ops.nms(boxes, scores, 0.5)


# timm: the smallest of many families.
def timm(name, size=64, **kwargs):
    case(f"timm.{name}", lambda: Lazy("timm").create_model(name, num_classes=10, **kwargs), of(3, size, size))


timm("test_vit", 160)
timm("test_resnet")
timm("test_efficientnet")
timm("test_efficientnet_evos")
timm("test_byobnet")
timm("test_nfnet")
timm("test_convnext")
timm("test_mambaout")
timm("test_vit_relpos", 160)
timm("test_coatnet", 160)
timm("test_maxvit", 160)
timm("beit_base_patch16_224", img_size=64, embed_dim=48, depth=2, num_heads=4)
timm("cait_xxs24_224", img_size=64, embed_dim=48, depth=2, num_heads=4)
timm("edgenext_xx_small")
timm("efficientvit_b0")
timm("eva02_tiny_patch14_224", 56, img_size=56, depth=2, embed_dim=48, num_heads=4)
timm("fastvit_t8")
timm("ghostnetv2_100")
timm("hgnetv2_b0")
timm("levit_128s", 224)
timm("mobileone_s0")
timm("mobilevitv2_050")
timm("pvt_v2_b0")
timm("repvit_m1")
timm("resnest14d")
timm("swinv2_tiny_window8_256", img_size=64, window_size=4, depths=(2, 2), num_heads=(2, 4), embed_dim=32)
timm("mixer_s32_224", img_size=64)
timm("poolformerv2_s12")
timm("xcit_nano_12_p16_224", depth=2)
timm("convit_tiny", img_size=64, depth=2, embed_dim=48, num_heads=4, local_up_to_layer=1)
timm("davit_tiny", depths=(1, 1, 1, 1), embed_dims=(16, 32, 48, 64), num_heads=(1, 2, 3, 4))
timm("deit_tiny_distilled_patch16_224", img_size=64, depth=2)
timm("densenet121", block_config=(2, 2, 2, 2))
timm("dla34")
timm("efficientvit_m0", 224)
timm("focalnet_tiny_srf")
timm("hardcorenas_a")
timm("hrnet_w18_small")
timm("inception_next_atto")
timm("lcnet_050")
timm("mobilenetv4_conv_small_035")
timm("mobilevit_xxs")
timm("nf_resnet26")
timm("regnetx_002")
timm("repghostnet_050")
timm("repvgg_a0")
timm("rexnet_100")
timm("skresnet18")
timm("starnet_s050")
timm("swinv2_cr_tiny_224", img_size=64, window_size=2, depths=(1, 1), num_heads=(2, 4), embed_dim=16)
timm("ese_vovnet19b_dw")
timm("gernet_s")
timm("samvit_base_patch16", img_size=64, depth=2, embed_dim=48, num_heads=4, global_attn_indexes=(1,))
timm("vit_base_patch16_siglip_224", img_size=64, depth=2, embed_dim=48, num_heads=4)
timm("naflexvit_base_patch16_gap", depth=2, embed_dim=48, num_heads=4)
timm("gmlp_s16_224", img_size=64)
timm("fasternet_t0")
timm("mixnet_s")
timm("eca_nfnet_l0")


# transformers: by the name of the model's class, with a small configuration.
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 99, "max_position_embeddings": 64,
         "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
IMAGE = {"image_size": 32, "patch_size": 8}


def small(config, **changes):
    """A configuration with few and narrow layers: SMALL where the class has such a field, then `changes`."""
    kind = getattr(Lazy("transformers"), config + "Config")
    known = kind()
    return kind(**{**{k: v for k, v in SMALL.items() if k in known.to_dict()}, "use_cache": False, "attn_implementation": "sdpa", **changes})


def transformers(name, inputs, config=None, train=True, **changes):
    base = next(name[:-len(end)] for end in ("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForSequenceClassification", "ForImageClassification", "ForSemanticSegmentation", "ForConditionalGeneration",
                                             "ForCTC", "ForObjectDetection", "EncoderModel", "TextModel", "VisionModel", "Model") if name.endswith(end))
    case(f"transformers.{name}", lambda: getattr(Lazy("transformers"), name)(small(config or base, **changes)), inputs, train=train)


def words(n):
    return {"input_ids": ints(90, n, 9) + 3}


def masked(n):
    return {**words(n), "attention_mask": (torch.arange(9)[None] < torch.arange(5, 5 + n)[:, None]).long()}


def translated(n):
    return {**words(n), "decoder_input_ids": ints(90, n, 6) + 3}


def pixels(size=32):
    return lambda n: {"pixel_values": rand(n, 3, size, size)}


transformers("BertModel", masked)
transformers("BertForSequenceClassification", masked)
transformers("RobertaForMaskedLM", words)
transformers("DistilBertModel", masked, dim=32, n_layers=2, n_heads=4, hidden_dim=48)
transformers("AlbertModel", masked, embedding_size=16)
transformers("ElectraModel", masked, embedding_size=16)
transformers("DebertaV2Model", masked, relative_attention=True, pos_att_type=["c2p", "p2c"], position_buckets=8, attn_implementation="eager")
transformers("DebertaModel", masked, relative_attention=True, pos_att_type=["c2p", "p2c"], attn_implementation="eager")
transformers("FunnelModel", masked, d_model=32, n_head=4, d_head=8, d_inner=48, block_sizes=[1, 1], num_decoder_layers=1, attn_implementation="eager")
transformers("MPNetModel", masked, attn_implementation="eager")
transformers("ModernBertModel", masked, global_attn_every_n_layers=2)
transformers("FNetModel", words, attn_implementation="eager")
transformers("XLNetModel", words, d_model=32, n_layer=2, n_head=4, d_inner=48, attn_implementation="eager")
transformers("ConvBertModel", masked, embedding_size=16, attn_implementation="eager")
transformers("GPT2LMHeadModel", masked, n_embd=32, n_layer=2, n_head=4, n_positions=64)
transformers("GPTNeoModel", masked, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], attn_implementation="eager")
transformers("GPTNeoXModel", masked)
transformers("GPTJModel", masked, n_embd=32, n_layer=2, n_head=4, rotary_dim=4, n_positions=64, attn_implementation="eager")
transformers("LlamaForCausalLM", masked, num_key_value_heads=2)
transformers("MistralModel", masked, num_key_value_heads=2, sliding_window=4)
transformers("MixtralModel", words, num_key_value_heads=2, num_local_experts=4)
transformers("Qwen2ForCausalLM", masked, num_key_value_heads=2)
transformers("Qwen3Model", masked, num_key_value_heads=2, head_dim=8)
transformers("GemmaModel", masked, num_key_value_heads=2, head_dim=8)
transformers("Gemma2Model", masked, num_key_value_heads=2, head_dim=8, attn_implementation="eager")
transformers("PhiModel", masked)
transformers("OPTModel", masked, ffn_dim=48, word_embed_proj_dim=32)
transformers("BloomModel", masked, n_layer=2, n_head=4, attn_implementation="eager")
transformers("FalconModel", masked, alibi=True)
transformers("MambaModel", words, state_size=4, time_step_rank=4, attn_implementation="eager")
transformers("RwkvModel", words, attention_hidden_size=32, attn_implementation="eager")
transformers("T5Model", translated, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_decoder_layers=2, num_heads=4, attn_implementation="eager")
transformers("BartForConditionalGeneration", translated, d_model=32, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=48, decoder_ffn_dim=48, encoder_attention_heads=4, decoder_attention_heads=4)
transformers("MarianModel", translated, d_model=32, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=48, decoder_ffn_dim=48, encoder_attention_heads=4, decoder_attention_heads=4)
transformers("WhisperModel", lambda n: {"input_features": rand(n, 16, 40), "decoder_input_ids": ints(90, n, 5) + 3}, d_model=32, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=48,
             decoder_ffn_dim=48, encoder_attention_heads=4, decoder_attention_heads=4, num_mel_bins=16, max_source_positions=20, max_target_positions=20)
transformers("Wav2Vec2Model", lambda n: {"input_values": rand(n, 800)}, conv_dim=(16, 16, 16), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 2), num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2,
             mask_time_prob=0.0, mask_feature_prob=0.0)
transformers("ViTForImageClassification", pixels(), **IMAGE)
transformers("DeiTModel", pixels(), **IMAGE)
transformers("Dinov2Model", pixels(), **IMAGE)
transformers("SwinModel", pixels(), image_size=32, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4)
transformers("SegformerForSemanticSegmentation", pixels(64), depths=[1, 1, 1, 1], hidden_sizes=[16, 16, 32, 32], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=16, attn_implementation="eager")
transformers("MobileViTModel", pixels(64), attn_implementation="eager")
transformers("CLIPModel", lambda n: {**words(n), **pixels()(n)}, text_config={**SMALL}, vision_config={**SMALL, **IMAGE}, projection_dim=16)
transformers("SiglipVisionModel", pixels(), "SiglipVision", **IMAGE)
transformers("BeitModel", pixels(), use_relative_position_bias=True, **IMAGE)
transformers("CamembertModel", masked)
transformers("LongformerModel", lambda n: {"input_ids": ints(90, n, 16) + 3}, attention_window=[4, 4], attn_implementation="eager")
transformers("NystromformerModel", lambda n: {"input_ids": ints(90, n, 16) + 3}, num_landmarks=16, segment_means_seq_len=16, attn_implementation="eager")
transformers("RoFormerModel", masked, embedding_size=16, attn_implementation="eager")
transformers("SqueezeBertModel", masked, embedding_size=32, attn_implementation="eager")
transformers("IBertModel", masked, attn_implementation="eager")
transformers("EsmModel", masked, position_embedding_type="rotary", attn_implementation="eager")
transformers("CTRLModel", words, n_embd=32, n_layer=2, n_head=4, dff=48, n_positions=64, attn_implementation="eager")
transformers("CodeGenModel", words, n_embd=32, n_layer=2, n_head=4, rotary_dim=4, n_positions=64, n_ctx=64, attn_implementation="eager")
transformers("BioGptModel", masked)
transformers("XGLMModel", words, d_model=32, num_layers=2, attention_heads=4, ffn_dim=48, attn_implementation="eager")
transformers("MptModel", masked, d_model=32, n_heads=4, n_layers=2, max_seq_len=64, attn_implementation="eager")
transformers("Phi3Model", masked, num_key_value_heads=2)
transformers("Olmo2Model", masked, num_key_value_heads=2)
transformers("CohereModel", masked, num_key_value_heads=2)
transformers("Gemma3TextModel", masked, "Gemma3Text", num_key_value_heads=2, head_dim=8)
transformers("Glm4Model", masked, num_key_value_heads=2, head_dim=8)
transformers("NemotronModel", masked, num_key_value_heads=2)
transformers("Qwen3MoeModel", words, num_key_value_heads=2, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)
transformers("DeepseekV3Model", words, q_lora_rank=16, kv_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=4, v_head_dim=8, n_routed_experts=4, num_experts_per_tok=2, n_group=1, topk_group=1,
             moe_intermediate_size=16, first_k_dense_replace=1, num_key_value_heads=4)
transformers("Mamba2Model", words, state_size=8, head_dim=8, num_heads=8, expand=2, n_groups=2, chunk_size=4, attn_implementation="eager")
transformers("MBartModel", translated, d_model=32, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=48, decoder_ffn_dim=48, encoder_attention_heads=4, decoder_attention_heads=4)
transformers("ProphetNetModel", translated, num_encoder_layers=1, num_decoder_layers=1, encoder_ffn_dim=48, decoder_ffn_dim=48, num_encoder_attention_heads=4, num_decoder_attention_heads=4, attn_implementation="eager")
transformers("WavLMModel", lambda n: {"input_values": rand(n, 800)}, conv_dim=(16, 16, 16), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 2), num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2,
             mask_time_prob=0.0, mask_feature_prob=0.0, attn_implementation="eager")
transformers("ASTModel", lambda n: {"input_values": rand(n, 64, 32)}, max_length=64, num_mel_bins=32, patch_size=8, frequency_stride=8, time_stride=8)
transformers("ConvNextV2Model", pixels(64), hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], attn_implementation="eager")
transformers("RegNetModel", pixels(64), hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], embedding_size=16, groups_width=8, attn_implementation="eager")
transformers("BitModel", pixels(64), hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], embedding_size=16, num_groups=8, attn_implementation="eager")
transformers("Swinv2Model", pixels(), image_size=32, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4, attn_implementation="eager")
transformers("YolosModel", pixels(), num_detection_tokens=5, image_size=[32, 32], patch_size=8)
transformers("VideoMAEModel", lambda n: {"pixel_values": rand(n, 4, 3, 32, 32)}, num_frames=4, tubelet_size=2, **IMAGE)
transformers("TimesformerModel", lambda n: {"pixel_values": rand(n, 4, 3, 32, 32)}, num_frames=4, attn_implementation="eager", **IMAGE)
transformers("PerceiverModel", lambda n: {"inputs": rand(n, 9, 32)}, d_model=32, d_latents=32, num_latents=8, num_self_attends_per_block=1, num_self_attention_heads=4, num_cross_attention_heads=4,
             attn_implementation="eager")
transformers("PatchTSTModel", lambda n: {"past_values": rand(n, 32, 2)}, num_input_channels=2, context_length=32, patch_length=8, patch_stride=8, d_model=16, ffn_dim=32, attn_implementation="eager")
transformers("TapasModel", lambda n: {**words(n), "token_type_ids": torch.zeros(n, 9, 7, dtype=torch.int64)}, attn_implementation="eager")
